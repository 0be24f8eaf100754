% The demo's size: 100 x 100 of rank 5, a tenth of the cells seen. Prints milliseconds per
% slice, processor time.
n = 60;
a = randn(100, 5); b = randn(100, 5); x = zeros(100, 100, n);
for t = 1:n
  x(:, :, t) = a * diag(randn(5, 1)) * b';
end
start.A = randn(100, 5); start.B = randn(100, 5); start.C = randn(n, 5);
settings.store_subinfo = false; settings.verbose = 0;
begin = cputime;
olstec(x, rand(size(x)) < .1, [], [100 100 n], 5, start, settings);
printf('%.6f\n', 1e3 * (cputime - begin) / n);
