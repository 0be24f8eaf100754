function m = ten2mat(x, n)
  % Mode-n unfolding, the first of the other modes fastest.
  d = ndims(x);
  rest = setdiff(1:d, n);
  m = reshape(permute(x, [n rest]), size(x, n), []);
end
