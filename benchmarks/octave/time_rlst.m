% The demo's size: 20 x 20 of rank 8, exponential window .9. Prints milliseconds per slice:
% processor time of the loop over all slices, which are made before.
n = 1000; a = randn(20, 8); c = randn(20, 8); b = randn(20, 8);
both = @(c, a) reshape(reshape(a, 20, 1, 8) .* reshape(c, 1, 20, 8), 400, 8);
memory = diag(.9 .^ (19:-1:0));
p = b' * memory * b; q = inv(p); r = both(c, a) * b' * memory * b; z = pinv(r);
tracked = a ./ norm(a, 'columns'); x = zeros(400, n);
for t = 1:n
  a = .999 * a + .001 * randn(20, 8); c = .999 * c + .001 * randn(20, 8);
  x(:, t) = both(c, a) * randn(8, 1);
end
begin = cputime;
for t = 1:n
  [~, tracked, ~, p, q, r, z] = parafac_rlst(x(:, t), [], [], tracked, p, q, r, z, 'exp', .9, 10, 0);
end
printf('%.6f\n', 1e3 * (cputime - begin) / n);
