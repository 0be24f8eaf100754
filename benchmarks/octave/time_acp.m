% The demo's size: 20 x 20 x 20 of rank 2, nine tenths seen. Prints milliseconds per
% slice, processor time.
n = 200; slices = cell(n, 1); seen = cell(n, 1);
f = {randn(20, 2), randn(20, 2), randn(20, 2)};
for t = 1:n
  slices{t} = reshape(khatrirao(f, 'r') * randn(2, 1), [20 20 20]) + 1e-3 * randn(20, 20, 20);
  seen{t} = rand(20, 20, 20) < .9;
end
begin = cputime;
ACP(slices, seen, 2);
printf('%.6f\n', 1e3 * (cputime - begin) / n);
